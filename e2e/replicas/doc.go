// Package replicas replicates by real programs what users replicate: partitions, over
// networks that lose, to machines that are killed.
package replicas
