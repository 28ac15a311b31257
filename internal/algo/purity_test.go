package algo_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// forbidden are the imports that a rule may not have, and why.
var forbidden = map[string]string{
	"context":      "a rule does not wait, so there is nothing to cancel",
	"log":          "a rule returns what it decides; its shell logs",
	"log/slog":     "a rule returns what it decides; its shell logs",
	"math/rand":    "randomness is handed in by a seeded source of the caller",
	"math/rand/v2": "randomness is handed in by a seeded source of the caller",
	"crypto/rand":  "a rule must do the same twice",
	"net":          "sockets belong to shells",
	"os":           "files belong to shells",
	"sync":         "a rule belongs to one goroutine",
	"sync/atomic":  "a rule belongs to one goroutine",
	"syscall":      "the kernel belongs to shells",
}

// clock are the functions of package time that read a clock or arm a timer.
var clock = map[string]bool{
	"Now": true, "Since": true, "Until": true, "Sleep": true, "After": true,
	"AfterFunc": true, "NewTimer": true, "NewTicker": true, "Tick": true,
}

const module = "github.com/groupcast/groupcast/"

// Every rule is pure: facts and time go in, decisions come out.
func TestRulesArePure(t *testing.T) {
	checked := 0
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		checked++
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, problem := range impurities(file) {
			t.Errorf("%s: %s", files.Position(problem.at), problem.what)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked == 0 {
		t.Fatal("no rules were found")
	}
}

func TestImpuritiesAreFound(t *testing.T) {
	source := `package rule
import ("net"; "time"; "github.com/groupcast/groupcast/internal/daemon")
func f(c net.Conn) { go f(c); _ = time.Now(); daemon.Main() }`
	file, err := parser.ParseFile(token.NewFileSet(), "rule.go", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if found := impurities(file); len(found) != 4 {
		t.Errorf("found %d impurities, want 4: %v", len(found), found)
	}
}

type impurity struct {
	at   token.Pos
	what string
}

func impurities(file *ast.File) (found []impurity) {
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		if reason, is := forbidden[path]; is {
			found = append(found, impurity{spec.Pos(), "imports " + path + ": " + reason})
		}
		if strings.HasPrefix(path, module) && !strings.HasPrefix(path, module+"internal/algo/") && !strings.HasPrefix(path, module+"internal/wire/") {
			found = append(found, impurity{spec.Pos(), "imports " + path + ": rules stand on rules, layouts and the standard library"})
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.GoStmt:
			found = append(found, impurity{node.Pos(), "starts a goroutine"})
		case *ast.SelectorExpr:
			if of, isName := node.X.(*ast.Ident); isName && of.Name == "time" && clock[node.Sel.Name] {
				found = append(found, impurity{node.Pos(), "reads a clock: time is an argument"})
			}
		}
		return true
	})
	return found
}
