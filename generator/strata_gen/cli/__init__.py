"""Stage 7: the command line. One module per command, imported when the command is used."""
