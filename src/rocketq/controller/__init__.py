"""The controller: decides which broker of a name is master, and another when it is gone."""
