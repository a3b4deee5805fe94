"""Matrix products: dense, grouped (the experts of a mixture), and fp32 routers."""
