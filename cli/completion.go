package cli

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/kloop-dev/kloop/strict"
)

// shells are those whose completion is known, and what writes it.
var shells = map[string]func(io.Writer, []spelling){"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion,
	"powershell": powershellCompletion}

// completion prints the completion of a shell, made from the table of commands and their flags.
func completion(ctx context.Context, std stdio, args []string) error {
	fs := flags(std, "completion", "bash | zsh | fish | powershell")
	words, err := wordsOf(fs, args, 1, 1)
	if err != nil {
		return err
	}
	write := shells[words[0]]
	if write == nil {
		c, _ := find("completion")
		return misusef("no completion for %q%s (there are %s)", words[0], strict.Meant(words[0], c.subs()), strings.Join(c.subs(), ", "))
	}
	list, err := spellings(ctx)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	write(&b, list)
	_, err = std.out.Write(b.Bytes())
	return err
}

// A spelling is all that can be typed after a command's name.
type spelling struct {
	command
	words []string     // second words: load, list
	flags []*flag.Flag // of the command and of its second words, each name once
	sets  []*flag.FlagSet
}

// spellings asks every command for its flags. kubectl's are its own affair.
func spellings(ctx context.Context) (list []spelling, err error) {
	for _, c := range commands() {
		s := spelling{command: c, words: c.subs()}
		switch c.name {
		case "kubectl":
		case "help":
			for _, other := range commands() {
				s.words = append(s.words, other.name)
			}
		default:
			if err := s.ask(ctx); err != nil {
				return nil, err
			}
		}
		list = append(list, s)
	}
	return list, nil
}

// ask runs the command with -h for each of its second words, and notes the flags.
func (s *spelling) ask(ctx context.Context) error {
	seen := map[string]bool{}
	lines := [][]string{{"-h"}}
	if len(s.words) > 0 {
		lines = nil
		for _, w := range s.words {
			lines = append(lines, []string{w, "-h"})
		}
	}
	for _, line := range lines {
		var got catcher
		if err := s.run(ctx, stdio{strings.NewReader(""), &got, io.Discard}, line); !errors.Is(err, flag.ErrHelp) || got.fs == nil {
			return fmt.Errorf("kloop %s %s shows no help: %w", s.name, strings.Join(line, " "), err)
		}
		s.sets = append(s.sets, got.fs)
		got.fs.VisitAll(func(f *flag.Flag) {
			if !seen[f.Name] {
				seen[f.Name] = true
				s.flags = append(s.flags, f)
			}
		})
	}
	return nil
}

// valued says that a value follows the flag.
func valued(f *flag.Flag) bool {
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return !ok || !b.IsBoolFlag()
}

// all are the second words and flags as they are typed.
func (s *spelling) all() []string {
	list := append([]string{}, s.words...)
	for _, f := range s.flags {
		list = append(list, dashes(f.Name))
	}
	return list
}

func names(list []spelling) (out []string) {
	for _, s := range list {
		out = append(out, s.name)
	}
	return out
}

func bashCompletion(w io.Writer, list []spelling) {
	fmt.Fprint(w, "# bash completion of kloop: source <(kloop completion bash)\n_kloop() {\n  local cur=${COMP_WORDS[COMP_CWORD]} words=\n")
	fmt.Fprintf(w, "  if [ \"$COMP_CWORD\" = 1 ]; then\n    words='%s'\n  else\n    case ${COMP_WORDS[1]} in\n",
		strings.Join(names(list), " "))
	for _, s := range list {
		fmt.Fprintf(w, "    %s) words='%s' ;;\n", s.name, strings.Join(s.all(), " "))
	}
	fmt.Fprint(w, "    esac\n  fi\n  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\ncomplete -o default -F _kloop kloop\n")
}

// quoted puts a text between single quotes of a shell; bad are characters with a meaning of their own inside them.
func quoted(text, bad, quote string) string {
	text = strings.Map(func(r rune) rune {
		if strings.ContainsRune(bad, r) {
			return ' '
		}
		return r
	}, text)
	return "'" + strings.ReplaceAll(text, "'", quote) + "'"
}

func zshCompletion(w io.Writer, list []spelling) {
	const bad, quote = "[]:\\", `'\''`
	fmt.Fprint(w,
		"#compdef kloop\n# zsh completion of kloop: kloop completion zsh >\"${fpath[1]}/_kloop\"\n_kloop() {\n"+
			"  if (( CURRENT == 2 )); then\n    local -a list=(\n")
	for _, s := range list {
		fmt.Fprintf(w, "      %s\n", quoted(s.name+":"+strings.ReplaceAll(s.about, ":", ","), "", quote))
	}
	fmt.Fprint(w,
		"    )\n    _describe command list\n    return\n  fi\n  local name=$words[2]\n  shift words; (( CURRENT-- ))\n  case $name in\n")
	for _, s := range list {
		fmt.Fprintf(w, "  %s) _arguments", s.name)
		for _, f := range s.flags {
			_, about := flag.UnquoteUsage(f)
			text := quoted(about, bad, quote)
			line := "'" + dashes(f.Name) + "[" + strings.Trim(text, "'") + "]"
			if valued(f) {
				line += ":value:_files"
			}
			fmt.Fprintf(w, " \\\n    %s'", line)
		}
		if len(s.words) > 0 {
			fmt.Fprintf(w, " \\\n    '1:word:(%s)'", strings.Join(s.words, " "))
		}
		fmt.Fprint(w, " \\\n    '*:file:_files' ;;\n")
	}
	fmt.Fprint(w, "  esac\n}\nif [ \"$funcstack[1]\" = _kloop ]; then _kloop \"$@\"; else compdef _kloop kloop; fi\n")
}

func fishCompletion(w io.Writer, list []spelling) {
	const bad, quote = "\\", `\'`
	fmt.Fprint(w, "# fish completion of kloop: kloop completion fish >~/.config/fish/completions/kloop.fish\n")
	for _, s := range list {
		fmt.Fprintf(w, "complete -c kloop -n __fish_use_subcommand -f -a %s -d %s\n", s.name, quoted(s.about, bad, quote))
		in := fmt.Sprintf("complete -c kloop -n '__fish_seen_subcommand_from %s'", s.name)
		if len(s.words) > 0 {
			fmt.Fprintf(w, "%s -f -a '%s'\n", in, strings.Join(s.words, " "))
		}
		for _, f := range s.flags {
			_, about := flag.UnquoteUsage(f)
			kind, value := "-l", ""
			if len(f.Name) == 1 {
				kind = "-s"
			}
			if valued(f) {
				value = " -r"
			}
			fmt.Fprintf(w, "%s %s %s%s -d %s\n", in, kind, f.Name, value, quoted(about, bad, quote))
		}
	}
}

func powershellCompletion(w io.Writer, list []spelling) {
	fmt.Fprint(w, "# PowerShell completion of kloop: kloop completion powershell | Out-String | Invoke-Expression\n"+
		"Register-ArgumentCompleter -Native -CommandName kloop -ScriptBlock {\n  param($word, $ast, $position)\n  $words = @{\n")
	row := func(name string, list []string) {
		fmt.Fprintf(w, "    '%s' = @('%s')\n", name, strings.Join(list, "', '"))
	}
	row("", names(list))
	for _, s := range list {
		if all := s.all(); len(all) > 0 {
			row(s.name, all)
		}
	}
	fmt.Fprint(w, "  }\n  $typed = $ast.CommandElements | ForEach-Object { $_.ToString() }\n  $name = ''\n"+
		"  if ($typed.Count -gt 2 -or ($typed.Count -eq 2 -and $word -eq '')) { $name = $typed[1] }\n"+
		"  $words[$name] | Where-Object { $_ -like \"$word*\" } | ForEach-Object {\n"+
		"    [System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_)\n  }\n}\n")
}
