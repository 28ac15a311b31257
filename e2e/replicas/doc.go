// Package replicas uses real programs to replicate what users replicate: files and directories through
// a manager to two LANs, and partitions, over networks that lose packets, to machines that are killed.
package replicas
