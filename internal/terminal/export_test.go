package terminal

// WriteBelow is how a line below a bar is written.
var WriteBelow = writeBelow
