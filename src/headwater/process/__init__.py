"""Child processes: started so that none outlives us, read, ended in time, and restarted with back-off."""
