"""What requests of a batch feel of each other: scenarios and a random load, in every way to read prompts."""
