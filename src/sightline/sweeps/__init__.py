"""Much work in small pieces: on the processes of this machine or on a cluster, with results that outlive the work."""
