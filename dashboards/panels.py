"""What all dashboards have in common: where the data is from, and how panels look."""

import re
from dataclasses import dataclass

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.models.common import LegendDisplayMode, LegendPlacement, TooltipDisplayMode, VizLegendOptions
from grafana_foundation_sdk.models.dashboard import DataSourceRef, VariableOption, VariableRefresh, VariableSort

SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")

# Written once, so that a panel shows what its name says and nothing of another installation.
HERE = 'namespace=~"$namespace"'

# Whose metric one is. Each part has a job of its own: groupcast-standalone, which has the metrics of all, is scraped once in each of them, and
# would be shown four times.
PART = re.compile(r"\bgroupcast_(manager|agent|gatherer|replicator)_\w+{")

HEIGHT, WIDTH = 7, 24


@dataclass
class Query:
    """A query, and what its lines are called."""

    expression: str
    legend: str


def lines(title, description, unit, *queries, span=8, stacked=False):
    """Lines over time."""
    legend = VizLegendOptions(
        display_mode=LegendDisplayMode.LIST, placement=LegendPlacement.BOTTOM, show_legend=True, calcs=[])
    panel = (
        timeseries.Panel().title(title).description(description).unit(unit).datasource(SOURCE)
        .span(span).height(HEIGHT).min(0).line_width(1).fill_opacity(8 if not stacked else 30)
        .legend(Built(legend)).tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI)))
    if stacked:
        panel.stacking(common.StackingConfig().mode("normal"))
    return with_queries(panel, queries)


def number(title, description, unit, expression, span=4):
    """One number, as it is now, over how it was."""
    panel = stat.Panel().title(title).description(description).unit(unit).datasource(SOURCE).span(span).height(4)
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    return with_queries(panel, [Query(expression, title)])


class Built:
    """A value where the SDK wants a builder."""

    def __init__(self, value):
        self.value = value

    def build(self):
        """Returns the value."""
        return self.value


def with_queries(panel, queries):
    """Adds queries to a panel, each of the job of its part; HERE stands for the namespaces that are chosen."""
    for ref, query in zip("ABCDEFGH", queries, strict=False):
        expression = PART.sub(lambda found: f'{found[0]}job="{found[1]}", ', query.expression).replace("HERE", HERE)
        panel.with_target(
            prometheus.Dataquery().expr(expression).legend_format(query.legend).ref_id(ref).datasource(SOURCE))
    return panel


def board(uid, title, description, *rows):
    """A dashboard of rows, each a title and panels."""
    built = (
        dashboard.Dashboard(title).uid(uid).description(description).tags(["groupcast"]).readonly()
        .time("now-1h", "now").refresh("30s").timezone("browser").tooltip(1)
        .with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .with_variable(
            dashboard.QueryVariable("namespace").label("Namespace").datasource(SOURCE)
            .query("label_values(groupcast_build_info, namespace)").refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
            .sort(VariableSort.ALPHABETICAL_ASC).multi(True).include_all(True)
            .current(VariableOption(selected=True, text=["All"], value=["$__all"]))))
    for name, panels in rows:
        built.with_row(dashboard.Row(name))
        for panel in panels:
            built.with_panel(panel)
    made = built.build()
    for number_of, panel in enumerate(made.panels, start=1):
        panel.id_val = number_of
    return made
