package cli

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"
)

// An output is the form in which a command answers: text, or json or yaml for programs.
type output string

// outputOf adds the flags -o and --output.
func outputOf(fs *flag.FlagSet) *output {
	o := new(output)
	for _, name := range []string{"output", "o"} {
		fs.Var(o, name, "json or yaml (default: text)")
	}
	return o
}

func (o *output) String() string { return string(*o) }

// Set refuses other words when flags are read, before anything is done.
func (o *output) Set(word string) error {
	if word != "json" && word != "yaml" {
		return fmt.Errorf("%q is neither json nor yaml", word)
	}
	*o = output(word)
	return nil
}

// print writes a value in a form that is not text.
func (o output) print(w io.Writer, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err == nil && o == "yaml" {
		data, err = yaml.JSONToYAML(data)
	}
	if err != nil {
		return err
	}
	if o == "json" {
		data = append(data, '\n')
	}
	_, err = w.Write(data)
	return err
}
