"""The command line: it reads requests and shows answers, and holds no arithmetic."""
