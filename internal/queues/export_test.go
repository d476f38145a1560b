package queues

// AskEvery is the poll interval of the last of some servers.
var AskEvery = askEvery
