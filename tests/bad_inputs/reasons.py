"""Why a public function has no row in the tables: for whole modules (patterns of names), and one by
one."""

MODULES = {
    r"book\.chapters\.elman_.*": "behind the chapters, with what the package has checked",
    r"lwcore\.claims\..*|lwcore\.claims": "claims measure; their command has rows, and nobody hands them arguments",
    r"lwcore\.(plots\w*|figures|interactive)\..*": "figures draw what a door has returned; nothing they make is kept",
    r"lwcore\.tables\w*\..*": "tables read results, which `results.load` has checked",
    r"lwcore\.(arguments|tensors|labelled)\..*": "the checks themselves: every row goes through one of them",
    r"lwcore\.(kernels|trace)\..*": "behind the cells' scans, `transport` and `gradient`, with tensors these have made",
    r"lwcore\.cells\.(\w+\.(shares|block|gates|step|closed_form)|GatedJacobian.*)": "one step, behind `forward` and `Trace`",
    r"lwcore\.stable\.(standard\..*|law\.(LogR|log_r).*|fits\.(Estimates|accepted|by_.*|charac.*))": "behind `SymmetricStable` and `fit`",
    r"lwcore\.(elman|adapter|diagnose)\..*": "signatures check: test_signatures",
    r"lwcore\.experiment\.(load|save)_checkpoint": "behind `run`, with what it has made or found",
}

NAMES = {
    "lwcore.cells.Cell": "abstract; its families have rows",
    "lwcore.cells.linear_scan": "behind the scans of linear families",
    "lwcore.cells.single_layer": "the check behind `from_torch`",
    "lwcore.cells.uniform": "draws weights, behind the cells",
    "lwcore.gradient.factorise": "means of rates and alignments; `matched_statistic` refuses what does not fit",
    "lwcore.window.matching": "the check behind `fit_decay` and the windows",
    "lwcore.window.scores": "behind `fit_decay`",
    "lwcore.cli.Commands.invoke": "runs a command; commands have rows",
    "lwcore.gradient.first_loss": "of loss gradients that are checked where they are used",
    "lwcore.experiment.fresh_sequences": "of a configuration, which has checked itself, and one of its seeds",
    "lwcore.experiment.networks": "of a configuration, which has checked itself",
    "lwcore.experiment.processes": "asks for nothing but a number of processes, which the library checks",
    "lwcore.experiment.run_member": "of a configuration, which has checked itself, model and seed of which `run` passes on",
    "lwcore.experiment.task_of": "of a configuration, which has checked itself, and one of its seeds",
    "lwcore.experiment.traces": "of a configuration, which has checked itself, and its networks",
    "lwcore.inference.config_of": "of a dataset that a run has made",
    "lwcore.inference.exponent_of_means": "of numbers that `summary` and `diagnose` have checked",
    "lwcore.results.check_writable": "a check itself",
    "lwcore.results.save": "of a dataset that a run has made",
    "lwcore.progress.bar": "draws a bar",
    "lwcore.results.write_atomically": "behind `save`",
    "lwcore.results.provenance": "of a configuration that has been read",
    "lwcore.train.batch_indices": "called every step with what `fit` has checked",
    "lwcore.transport.at_steps": "chooses steps, behind the rates, many times",
}
