"""What people look at: summaries and plots."""
