"""Looking into the files of a store that is not open."""
