package standalone_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Sources of reasons, by the section of docs/reasons.md that has them.
var reasonSources = map[string][]string{
	"Managers":                {"services/manager/api/errors.go"},
	"Gatherers":               {"services/gatherer/api/errors.go"},
	"The SDK and the command": {"sdk/*.go", "sdk/gather/*.go", "services/cli/*.go"},
}

var (
	reasonInCode = regexp.MustCompile(`(?:Code: (?:codes\.|sdk\.)?|NewStatus\(codes\.)(\w+), (?:Reason: )?"([A-Z_]+)"`)
	reasonOnPage = regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\| (\\w+) \\|")
)

// The page of reasons has each reason with its code, and no other.
func TestReasonsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/reasons.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := make(map[string]map[string]bool)
	for _, section := range strings.Split(string(page), "\n## ")[1:] {
		title, text, _ := strings.Cut(section, "\n")
		sections[title] = make(map[string]bool)
		for _, row := range reasonOnPage.FindAllStringSubmatch(text, -1) {
			sections[title][row[1]+" "+spelled(row[2])] = true
		}
	}
	for section, patterns := range reasonSources {
		want := reasonsIn(t, patterns)
		for _, reason := range slices.Sorted(maps.Keys(want)) {
			if !sections[section][reason] {
				t.Errorf("%q does not have %s", section, reason)
			}
		}
		for reason := range sections[section] {
			if !want[reason] {
				t.Errorf("%q has %s, which no code has", section, reason)
			}
		}
	}
}

// spelled returns a code without that in which languages differ, as FAILED_PRECONDITION and FailedPrecondition do.
func spelled(code string) string { return strings.ToLower(strings.ReplaceAll(code, "_", "")) }

func reasonsIn(t *testing.T, patterns []string) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join("..", "..", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range reasonInCode.FindAllStringSubmatch(string(text), -1) {
				found[one[2]+" "+spelled(one[1])] = true
			}
			if strings.Contains(string(text), `const NoManager = "NO_MANAGER"`) {
				found["NO_MANAGER unavailable"] = true
			}
		}
	}
	return found
}
