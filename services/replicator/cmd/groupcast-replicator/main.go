// The replicator.
package main

import (
	"os"

	"github.com/groupcast/groupcast/services/replicator/alone"
)

func main() { os.Exit(alone.Main(os.Args[1:], os.Stdout, os.Stderr)) }
