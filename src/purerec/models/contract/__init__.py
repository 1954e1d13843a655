"""What every model is and can do, whatever its method."""
