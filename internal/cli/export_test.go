package cli

// BuildOf is ReadBuild with the build information of Go given.
var BuildOf = buildOf

// Variables are the known environment variables.
var Variables = variables
