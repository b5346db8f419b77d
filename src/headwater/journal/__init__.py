"""The journal: the changes of a store's head, in order, in a place that outlives the machine."""
