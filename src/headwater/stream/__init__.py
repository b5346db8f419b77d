"""One stream, whole: sequencer, admission, dedupe, subjects, fold, view."""
