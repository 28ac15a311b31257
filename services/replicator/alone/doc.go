// Package alone is replication without a manager: one command sends and others receive, and
// a phrase that all are given is how they find and believe each other.
package alone
