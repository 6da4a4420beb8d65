"""The command line: a table of commands, each a thin layer over one public function."""
