"""Goes through the orders in which reads can complete, fail and be joined."""
