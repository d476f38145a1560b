// Package events defines the events that other systems are notified of, their JSON
// documents, and the interface that delivers them.
//
// A handler stores that an event is pending before it notifies, and an interrupted one is
// repeated. So each event is notified at least once, always under the same id.
package events
