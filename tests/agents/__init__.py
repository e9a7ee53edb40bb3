"""What the tests need to drive real agents: a scripted model and a driver for each agent."""
