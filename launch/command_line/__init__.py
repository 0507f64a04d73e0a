"""What the commands share: flags, help and hints, how a command begins and ends."""
