// The groupcast command.
package main

import (
	"os"

	"github.com/groupcast/groupcast/services/cli"
)

func main() { os.Exit(cli.Main(os.Args, os.Stdout, os.Stderr)) }
