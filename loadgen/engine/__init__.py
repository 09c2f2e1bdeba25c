"""The run itself: load shapes, the limiter, the life of a stream, the generator's own health."""
