package cli

// BuildOf is ReadBuild with the build information of Go given.
var BuildOf = buildOf
