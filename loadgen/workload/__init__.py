"""The workload file: schema, loader, units, prompts, and the plan that the engine follows."""
