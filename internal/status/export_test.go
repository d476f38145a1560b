package status

// OpenRow describes an open row without its name.
var OpenRow = openRow
