package console

import (
	"fmt"
	"strings"

	"orgops/internal/meters"
)

// plots are the plots of a time, and the numbers behind them.
type plots struct {
	Name  string // of the time
	Plots []plot
	Rows  []meters.Period // those with numbers
}

// plot is a chart of consecutive periods, for templates/plots.html: a bar for each, of one part upon
// the other. Its width is the number of periods, its height 100.
type plot struct {
	Title, Unit string
	From, To    string // times of the axis
	Width       int
	Most        int64 // the height of the plot
	Parts       []part
	Allowed     string // a path; empty: no line
}

// part is a part of each bar.
type part struct {
	Name  string
	Class string // of ops.css
	Sum   int64
	Path  string // of SVG
}

// seriesPart names a series as a part of a plot.
type seriesPart struct {
	name, class string
	value       func(meters.Period) int64
}

// charts are the plots of a tenant, each with its parts from below.
var charts = []struct {
	title string
	parts []seriesPart
}{
	{"Rows settled", []seriesPart{
		{"failed", "bad", func(p meters.Period) int64 { return p.Counts[meters.Failed] }},
		{"done or unchanged", "good", func(p meters.Period) int64 { return p.Counts[meters.Settled] - p.Counts[meters.Failed] }},
	}},
	{requestsTitle, []seriesPart{
		{"refused (429)", "bad", func(p meters.Period) int64 { return p.Counts[meters.Refused] }},
		{"answered", "goes", func(p meters.Period) int64 { return p.Counts[meters.Requests] - p.Counts[meters.Refused] }},
	}},
	{"DNS verdicts", []seriesPart{
		{"token absent", "wait", func(p meters.Period) int64 { return p.Counts[meters.Absent] }},
		{"unknown", "quiet", func(p meters.Period) int64 { return p.Counts[meters.Other] }},
		{"token present", "good", func(p meters.Period) int64 { return p.Counts[meters.Proven] }},
	}},
}

const requestsTitle = "Requests to the API"

// plotsOf returns the plots of a tenant.
func plotsOf(h meters.History) []plots {
	hour, day := plots{Name: "Last hour"}, plots{Name: "Last day"}
	hour.add(h.Hour, "a minute")
	day.add(h.Day, "a quarter of an hour")
	return []plots{hour, day}
}

func (p *plots) add(all []meters.Period, unit string) {
	for _, one := range all {
		if one.Counts != (meters.Counts{}) {
			p.Rows = append(p.Rows, one)
		}
	}
	for _, c := range charts {
		p.Plots = append(p.Plots, plotOf(all, c.title, unit, c.parts))
	}
}

func plotOf(all []meters.Period, title, unit string, parts []seriesPart) plot {
	p := plot{Title: title, Unit: unit, Width: len(all)}
	heights := make([]int64, len(all)) // of the bars so far
	for i, period := range all {
		for _, part := range parts {
			heights[i] += part.value(period)
		}
		p.Most = max(p.Most, heights[i])
		if title == requestsTitle {
			p.Most = max(p.Most, period.Allowed)
		}
	}
	y := func(n int64) int64 { return 100 - 100*n/max(p.Most, 1) }
	clear(heights)
	for _, s := range parts {
		one, path := part{Name: s.name, Class: s.class}, new(strings.Builder)
		for i, period := range all {
			if n := s.value(period); n > 0 {
				one.Sum += n
				fmt.Fprintf(path, "M%d %dV%dh.9V%dz", i, y(heights[i]), min(y(heights[i]+n), 99), y(heights[i]))
				heights[i] += n
			}
		}
		one.Path = path.String()
		p.Parts = append(p.Parts, one)
	}
	for i, period := range all {
		if title == requestsTitle && period.Allowed > 0 {
			p.Allowed += fmt.Sprintf("M%d %dh1", i, y(period.Allowed))
		}
	}
	if len(all) > 0 {
		p.From, p.To = all[0].At.Format("15:04"), all[len(all)-1].At.Format("15:04")
	}
	return p
}
