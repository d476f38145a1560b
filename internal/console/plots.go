package console

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"orgops/internal/meters"
	"orgops/internal/status"
	"orgops/internal/view"
)

// lastHour has the small plots of a tenant's last hour, for the overview and the pages of its runs.
type lastHour struct {
	Tenant string // empty: they could not be read, or there is no such tenant
	Plots  []plot // empty: nothing has happened
}

func empty(p meters.Period) bool { return p.Counts == (meters.Counts{}) }

// readHour reads the last hour of a tenant.
func readHour(ctx context.Context, t view.Tenant) (lastHour, error) {
	all, _, err := t.Meters(ctx)
	if err != nil {
		return lastHour{}, err
	}
	h := lastHour{Tenant: t.Name()}
	if len(slices.DeleteFunc(slices.Clone(all), empty)) > 0 {
		h.Plots = []plot{rowsPlot.of("a minute", all), requestsPlot.of("a minute", all)}
	}
	return h, nil
}

// plots are the plots of a time, and the numbers behind them.
type plots struct {
	Name  string // of the time
	Plots []plot
	Rows  []meters.Period // those with numbers
}

// plot is a chart of consecutive periods, for templates/plots.html: a bar for each, of one part
// upon the other. Its width is the number of periods, its height 100.
type plot struct {
	Title, Unit string
	Brief       string // what is counted, for small plots
	From, To    string // times of the axis
	Width       int
	Most        int64 // the height of the plot
	Parts       []part
	Allowed     string // a path; empty: no line
}

// Scale returns the height of the plot in words.
func (p plot) Scale() string {
	for _, one := range p.Parts {
		if one.Sum > 0 {
			return "max " + status.Grouped(p.Most)
		}
	}
	return "none"
}

// part is a part of each bar.
type part struct {
	Name, Class string // Class is one of ops.css
	Sum         int64
	Path        string // of SVG
	series      meters.Series
}

var (
	rowsPlot = plot{Title: "Rows settled", Brief: "rows", Parts: []part{
		{Name: "failed", Class: "bad", series: meters.Failed},
		{Name: "done or unchanged", Class: "good", series: meters.Good}}}
	requestsPlot = plot{Title: "Requests to the API", Brief: "requests", Parts: []part{
		{Name: "refused (429)", Class: "bad", series: meters.Refused},
		{Name: "not refused", Class: "goes", series: meters.Answered}}}
	verdictsPlot = plot{Title: "DNS verdicts", Parts: []part{
		{Name: "token absent", Class: "wait", series: meters.Absent},
		{Name: "unknown", Class: "quiet", series: meters.Unknown},
		{Name: "token present", Class: "good", series: meters.Present}}}
)

// plotsOf returns the plots of a time.
func plotsOf(name, unit string, all []meters.Period) plots {
	p := plots{Name: name, Rows: slices.DeleteFunc(slices.Clone(all), empty)}
	for _, chart := range []plot{rowsPlot, requestsPlot, verdictsPlot} {
		p.Plots = append(p.Plots, chart.of(unit, all))
	}
	return p
}

// of returns the plot with its numbers.
func (p plot) of(unit string, all []meters.Period) plot {
	p.Unit = unit
	p.Width = len(all)
	p.Most = 1
	if len(all) > 0 {
		p.From = all[0].At.Format("15:04")
		p.To = all[len(all)-1].At.Format("15:04")
	}
	p.Parts = append([]part(nil), p.Parts...)
	allowed := func(period meters.Period) int64 {
		if p.Title != requestsPlot.Title {
			return 0
		}
		return period.Counts[meters.Allowed]
	}
	for _, period := range all {
		height := int64(0)
		for _, one := range p.Parts {
			height += period.Counts[one.series]
		}
		p.Most = max(p.Most, height, allowed(period))
	}
	y := func(n int64) int64 { return 100 - 100*n/p.Most }
	var line strings.Builder
	paths := make([]strings.Builder, len(p.Parts))
	for x, period := range all {
		height := int64(0)
		for i := range p.Parts {
			if n := period.Counts[p.Parts[i].series]; n > 0 {
				top := max(0, min(y(height+n), y(height)-1)) // so that it is seen
				fmt.Fprintf(&paths[i], "M%d %dV%dh.9V%dz", x, y(height), top, y(height))
				p.Parts[i].Sum += n
				height += n
			}
		}
		if n := allowed(period); n > 0 {
			fmt.Fprintf(&line, "M%d %dh1", x, y(n))
		}
	}
	for i := range p.Parts {
		p.Parts[i].Path = paths[i].String()
	}
	p.Allowed = line.String()
	return p
}
