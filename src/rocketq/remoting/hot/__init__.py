"""What the wire knows of the requests that come most often."""
