package render

import (
	"bufio"
	"strings"
)

func bufferedReader(text string) *bufio.Reader { return bufio.NewReader(strings.NewReader(text)) }
