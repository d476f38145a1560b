package console

import (
	"html/template"

	"orgops/internal/web"
)

// Routes returns all routes.
func Routes(cfg Config) []web.Route { return newSite(cfg).routes(cfg) }

// PageTemplates returns the templates of the pages, by name.
func PageTemplates() map[string]*template.Template { return newSite(Config{}).pages }

// PageData has, for each page, data of its type. [PageOf] puts the layout's data around it.
var PageData = map[string]any{
	"problem": problem{}, "overview": overviewPage{},
	"runs": runsPage{}, "run": runPage{}, "domains": domainPage{}, "tenants": tenantsPage{},
	"search": searchPage{}, "selection": selectionPage{},
	"activity": activityPage{},
}

// PageOf returns the data of a page and of its layout.
func PageOf(data any, role web.Role) any {
	return page{Title: "Title", Section: "runs", User: web.Unsigned(role), Notice: "Notice",
		Failed: role == web.Operator, Data: data}
}

// Advised returns a text with its commands as code.
var Advised = advised
