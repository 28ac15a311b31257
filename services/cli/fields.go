package cli

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/groupcast/groupcast/sdk"
)

// fieldOf is the annotation of a flag, or of a command with a PATH, that names the field of a request which it sets.
const fieldOf = "groupcast_field"

// sets notes which fields of a request flags set.
func sets(flags *pflag.FlagSet, fields map[string]string) {
	for flag, field := range fields {
		known := flags.Lookup(flag).Annotations[fieldOf]
		if err := flags.SetAnnotation(flag, fieldOf, append(known, field)); err != nil {
			panic("cli: " + err.Error())
		}
	}
}

// inFlags returns what an error says. What managers refuse is named by its flag, and not by the API's field, and so are other fields that
// they mention by their whole path.
func inFlags(command *cobra.Command, err error) string {
	text := err.Error()
	if sdk.CodeOf(err) != sdk.InvalidArgument {
		return text
	}
	name := func(field, as string) {
		text = regexp.MustCompile(`(^|; )`+regexp.QuoteMeta(field)+`: `).ReplaceAllString(text, "${1}"+as+": ")
		if strings.Contains(field, ".") { // others are words that a message may have
			text = regexp.MustCompile(` `+regexp.QuoteMeta(field)+`([ ,;]|$)`).ReplaceAllString(text, " "+as+"${1}")
		}
	}
	command.Flags().VisitAll(func(flag *pflag.Flag) {
		for _, field := range flag.Annotations[fieldOf] {
			name(field, "--"+flag.Name)
		}
	})
	if field, is := command.Annotations[fieldOf]; is {
		name(field, "PATH")
	}
	return text
}

// taken says what flags take, by their types, of which the parsers' errors are in the words of Go.
var taken = map[string]string{
	"bool": "true or false", "duration": "a time, as 30s or 10m", "float64": "a number", "int": "a whole number",
	"uint16": "a number from 0 to 65535", "uint32": "a number from 0 to 4294967295",
}

// unread has an error about a flag that could not be read say what the flag takes.
func unread(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	flag := invalid.GetFlag()
	if takes, is := taken[flag.Value.Type()]; is {
		return fmt.Errorf("--%s is %q: want %s", flag.Name, invalid.GetValue(), takes)
	}
	return err
}
