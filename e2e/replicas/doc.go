// Package replicas replicates by real programs what users replicate: files and directories
// through a manager to two LANs, and partitions, over networks that lose, to machines that are killed.
package replicas
