"""What devices are made of: logic nodes, memories, links and dies, and the device that a budget of them makes."""
