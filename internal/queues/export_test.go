package queues

// AskEvery is how often the last of some servers asks Redis for a task.
var AskEvery = askEvery
