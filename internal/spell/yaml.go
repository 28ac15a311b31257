package spell

import (
	"errors"
	"regexp"
	"strings"
)

// wrongType is how a value of a wrong kind is reported: by names of Go's that nobody has written.
var wrongType = regexp.MustCompile(`cannot unmarshal (.+) into Go (?:struct field \w*\.(\S+)|value) of type .+$`)

// YAML says what is wrong with a YAML text in the words of who wrote it.
func YAML(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, step := range []string{"error converting YAML to JSON: ", "error unmarshaling JSON: ", "while decoding JSON: ", "json: "} {
		text = strings.TrimPrefix(text, step)
	}
	if found := wrongType.FindStringSubmatch(text); found != nil {
		where := found[2]
		if where == "" {
			where = "the whole"
		}
		text = where + " cannot be of the kind " + found[1]
	}
	return errors.New(text)
}
