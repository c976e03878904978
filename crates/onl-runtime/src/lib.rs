//! Graph optimization, memory planning and the runtime session.
