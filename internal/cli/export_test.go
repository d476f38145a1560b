package cli

// WriteBelow is how a line below a bar is written.
var WriteBelow = writeBelow

// BuildOf is ReadBuild by what Go is said to have written down.
var BuildOf = buildOf
