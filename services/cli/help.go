package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// markUnknownHelp makes help with a command that does not exist a usage error, as is to call one: cobra shows the help of what is above it.
func markUnknownHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil {
		panic("cli: " + err.Error())
	}
	help.Args = func(_ *cobra.Command, args []string) error {
		about, rest, err := root.Find(args)
		if err == nil && about.HasSubCommands() {
			err = unknownCommand(about, rest)
		}
		if err != nil {
			return usageError{fmt.Errorf("%w (see '%s --help')", err, about.CommandPath())}
		}
		return nil
	}
}
