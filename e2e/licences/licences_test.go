// Package licences checks that everyone may use everything that Groupcast is linked with.
package licences

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// allowed are the licences that are compatible with Apache-2.0, each with words that only it contains.
var allowed = map[string]string{
	"Apache-2.0": "Apache License Version 2.0, January 2004",
	"MIT":        "Permission is hereby granted, free of charge, to any person obtaining a copy",
	"BSD":        "Redistribution and use in source and binary forms, with or without modification, are permitted provided that",
	"ISC":        "Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby granted",
	"MPL-2.0":    "Mozilla Public License Version 2.0",
	// The library that draws charts brings in these two, which require that the authors are named.
	// The first leaves a choice between the FreeType License, which we choose, and another.
	"FTL":       "Use of the Freetype-Go software is subject to your choice of exactly one of the following two licenses: * The FreeType License",
	"CC-BY-4.0": "Creative Commons Attribution 4.0 International",
}

// refused are words of licences that are not compatible, wherever they occur.
var refused = []string{"GNU GENERAL PUBLIC LICENSE", "GNU AFFERO", "GNU LESSER", "Server Side Public License", "Business Source License"}

type module struct{ Path, Dir string }

// linked returns the modules that are linked into the binaries.
func linked(t *testing.T) []module {
	t.Helper()
	list := exec.Command("go", "list", "-deps", "-json=Module", "github.com/groupcast/groupcast/services/...", "github.com/groupcast/groupcast/sdk")
	list.Stderr = os.Stderr
	output, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	var modules []module
	for decoder := json.NewDecoder(strings.NewReader(string(output))); ; {
		var dependency struct{ Module *module }
		if err := decoder.Decode(&dependency); errors.Is(err, io.EOF) {
			return modules
		} else if err != nil {
			t.Fatal(err)
		}
		if m := dependency.Module; m != nil && !seen[m.Path] && m.Path != "github.com/groupcast/groupcast" {
			seen[m.Path] = true
			modules = append(modules, *m)
		}
	}
}

func TestDependenciesAreFree(t *testing.T) {
	modules := linked(t)
	if len(modules) < 10 {
		t.Fatalf("found only %d dependencies", len(modules))
	}
	for _, m := range modules {
		texts := licencesIn(t, m.Dir)
		if len(texts) == 0 {
			t.Errorf("%s has no licence file in %s", m.Path, m.Dir)
		}
		for _, text := range texts {
			if name := recognise(text); name == "" {
				t.Errorf("%s has a licence that is not known: %.100s", m.Path, text)
			}
		}
	}
}

// recognise returns the name of an allowed licence; empty if the text is none.
func recognise(text string) string {
	for _, words := range refused {
		if strings.Contains(text, words) && !strings.Contains(text, allowed["MPL-2.0"]) { // the MPL mentions these as secondary licences
			return ""
		}
	}
	for name, words := range allowed {
		if strings.Contains(text, words) {
			return name
		}
	}
	return ""
}

func TestRecognise(t *testing.T) {
	for text, want := range map[string]string{
		"Copyright X. " + allowed["MIT"] + " of this software": "MIT",
		"GNU GENERAL PUBLIC LICENSE Version 3":                 "",
		"All rights reserved.":                                 "",
	} {
		if got := recognise(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// licencesIn returns the texts of a module's licence files, with white space folded.
func licencesIn(t *testing.T, dir string) (texts []string) {
	t.Helper()
	for _, pattern := range []string{"LICENSE*", "LICENCE*", "COPYING*", "License*"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, strings.Join(strings.Fields(string(text)), " "))
		}
	}
	return texts
}
