package status

// WriteBelow is how a line below a bar is written.
var WriteBelow = writeBelow

// OpenRow describes an open row without its name.
var OpenRow = openRow
