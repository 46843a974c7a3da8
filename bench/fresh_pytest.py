"""What most graders do: one fresh process per submission, tests and learner code together, no jail. The yardstick of `cost.py`.

python bench/fresh_pytest.py FOLDER EX
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("OMP_NUM_THREADS", "1")


def run_tests(folder: Path, exercise_name: str):
    """Run the suites of one exercise on the file in `folder`, all in this process; returns the `SuiteRun`."""
    import msgspec
    import torch

    torch.set_num_threads(1)
    from grader.course import load_course
    from grader.grading.materials import make_suite, read_materials
    from grader.submission import own_submission
    from grader.suite.plugin import run_suite

    course = load_course(ROOT)
    exercise = course.exercise(exercise_name)
    materials = read_materials(course, exercise)
    source = own_submission(folder).file(exercise.file).content
    suite = make_suite(course, materials, {f"{exercise.file}.py": source}, seed=1)
    paths = {name: f"{exercise.file}/{name}" for name in suite.learner.files}
    return run_suite(msgspec.structs.replace(suite, debug_paths=paths, chaffs=[]), None)


def main() -> int:
    run = run_tests(Path(sys.argv[1]), sys.argv[2])
    passed = sum(test.outcome == "passed" for test in run.tests)
    print(f"{passed} of {len(run.tests)} tests passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
