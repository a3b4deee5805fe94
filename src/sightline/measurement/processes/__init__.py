"""Cases in processes of their own: isolated, limited, stored as they end, and resumed."""
