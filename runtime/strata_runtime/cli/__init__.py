"""The `strata` command line. One module per command, imported when the command is used."""
