"""What a study says: best points, what binds where, break-evens, pictures and sentences."""
