package cli

import (
	"log/slog"
	"slices"
	"strings"
	"sync"

	"orgops/internal/spelling"
)

const envPrefix = "ORGOPS_"

// EnvName returns the environment variable of a flag.
func EnvName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Environment is the environment of the process. It records which variables were read, so
// that misspelt ones can be reported.
type Environment struct {
	values map[string]string

	mu   sync.Mutex
	read map[string]bool
}

// NewEnvironment takes the environment as a list of NAME=value.
func NewEnvironment(environ []string) *Environment {
	e := &Environment{values: map[string]string{}, read: map[string]bool{}}
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		e.values[name] = value
	}
	return e
}

// Get returns the value of a variable; empty: it is not set.
func (e *Environment) Get(name string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.read[name] = true
	return e.values[name]
}

// Unknown describes, in order, the ORGOPS_ variables that neither this program has read nor
// another one of orgops reads.
func (e *Environment) Unknown() (all []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name := range e.values {
		if !strings.HasPrefix(name, envPrefix) || strings.HasPrefix(name, envPrefix+"TEST_") || e.read[name] ||
			slices.Contains(variables, name) {
			continue
		}
		text := name + " is not a setting"
		if meant := spelling.Nearest(name, variables); meant != "" {
			text += didYouMean + meant + "?)"
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}

// WarnOfVariables logs the variables that are not settings of orgops; with similar, only those that
// resemble one: a program that does not read the tenants' file does not know the variables that the
// file names.
func (p Program) WarnOfVariables(logger *slog.Logger, similar bool) {
	for _, problem := range p.Env.Unknown() {
		if !similar || strings.Contains(problem, didYouMean) {
			logger.Warn("unknown environment variable", "problem", problem)
		}
	}
}

const didYouMean = " (did you mean "
