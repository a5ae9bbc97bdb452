"""What people type: one small file per command; torch is imported only inside the commands that need it."""
