// Command oracle records what an API server does with a corpus of API
// scenarios, and later checks another server against those recordings.
//
//	oracle record -kubeconfig K -scenarios DIR -out DIR
//	oracle check  -kubeconfig K -scenarios DIR -recordings DIR [-run REGEX] [-v] [-json]
//	oracle list   -scenarios DIR
//
// See README.md for the scenario format and for what is normalised.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"time"
)

// options holds the flags shared by the sub-commands.
type options struct {
	kubeconfig string
	scenarios  string
	recordings string
	run        string
	profile    string
	kubectl    string
	parallel   int
	verbose    bool
	json       bool
	keep       bool
	expect     string
	place      string
	slow       time.Duration
}

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	cmd := os.Args[1]
	var o options
	fs := flag.NewFlagSet(cmd, flag.ExitOnError)
	fs.StringVar(&o.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig of a cluster administrator")
	fs.StringVar(&o.scenarios, "scenarios", "scenarios", "directory of scenario files")
	fs.StringVar(&o.recordings, "recordings", "recordings", "directory of recordings (check)")
	out := fs.String("out", "", "directory to write recordings to (record)")
	fs.StringVar(&o.run, "run", "", "only scenarios whose area/name matches this regular expression")
	fs.StringVar(&o.profile, "profile", "auto",
		"api: scenarios for a bare API server; full: those that need controllers, scheduler and nodes; auto: ask the server; all: both")
	fs.StringVar(&o.kubectl, "kubectl", "kubectl", "kubectl binary for transcript steps")
	fs.IntVar(&o.parallel, "parallel", 4, "scenarios run at the same time")
	fs.BoolVar(&o.verbose, "v", false, "print every difference")
	fs.BoolVar(&o.json, "json", false, "print a JSON report instead of text (check)")
	fs.BoolVar(&o.keep, "keep", false, "leave namespaces and objects behind")
	fs.StringVar(&o.expect, "expect", "", "file of scenarios that may fail, with reasons; fails when others do, or when these pass (check)")
	fs.StringVar(&o.place, "place", "", "the rows of that file that count: those with this word; the profile unless set")
	fs.DurationVar(&o.slow, "slow", 0, "report scenarios that take longer than this on standard error")
	_ = fs.Parse(os.Args[2:])
	if *out != "" {
		o.recordings = *out
	}

	all, err := loadScenarios(o.scenarios)
	if err != nil {
		fatal(err)
	}
	if o.run != "" {
		re, err := regexp.Compile(o.run)
		if err != nil {
			fatal(err)
		}
		kept := all.Scenarios[:0]
		for _, s := range all.Scenarios {
			if re.MatchString(s.ID()) {
				kept = append(kept, s)
			}
		}
		all.Scenarios = kept
	}

	switch cmd {
	case "list":
		for _, s := range all.Scenarios {
			fmt.Printf("%s\t%s\n", s.profile(), s.ID())
		}
	case "record":
		os.Exit(record(o, all))
	case "check":
		os.Exit(check(o, all))
	default:
		usage()
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: oracle record|check|list [flags]   (oracle check -h lists the flags)")
	os.Exit(2)
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "oracle:", err)
	os.Exit(2)
}
